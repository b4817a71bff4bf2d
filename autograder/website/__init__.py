"""The course as a static website: lessons with their outputs, exercises without answers, guides and reference."""
