"""What an instructor does with a class: standings, regrading, exports, the dashboard, a class for rehearsals."""
