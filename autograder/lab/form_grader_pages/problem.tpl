{#- What went wrong at an address of the form grader, and where to go from there. -#}
{%- extends 'base.tpl' -%}

{%- block title -%}
{{ heading }}
{%- endblock -%}

{%- block sidebar -%}
<li role="presentation"><a href="{{ base_url }}/formgrader/manage_assignments">Manage Assignments</a></li>
<li role="presentation"><a href="{{ base_url }}/formgrader/gradebook">Manual Grading</a></li>
<li role="presentation"><a href="{{ base_url }}/formgrader/manage_students">Manage Students</a></li>
{%- endblock -%}

{%- block body -%}
<div class="panel-body" id="error-{{ error_code }}">
  <p>{{ what }}</p>
  <p>Go on at <a href="{{ base_url }}/formgrader/gradebook">Manual Grading</a> for the answers that wait for you, or at
  <a href="{{ base_url }}/formgrader/manage_students">Manage Students</a> for your class list.</p>
</div>
{%- endblock -%}
