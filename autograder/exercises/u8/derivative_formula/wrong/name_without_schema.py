"""refused

Names the operator without its schema.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap
  self: grad * (1 - (result / cap).square())
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
