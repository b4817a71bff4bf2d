"""A dispatcher of one's own: key sets, a computed table, fallthrough, redispatch."""
