"""Count compilations over inputs of different shapes, then make one graph serve all of them."""
