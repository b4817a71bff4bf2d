"""JupyterLab for learners and instructors."""
