"""Writes the products out for images and for volumes, and the C++ as it stands."""


def channels_last_strides(sizes):
    n, c, *image = sizes
    if len(image) == 2:
        h, w = image
        return h * w * c, 1, w * c, c
    d, h, w = image
    return d * h * w * c, 1, h * w * c, w * c, c


def contiguous_strides(sizes):
    n, c, *image = sizes
    if len(image) == 2:
        h, w = image
        return c * h * w, h * w, w, 1
    d, h, w = image
    return c * d * h * w, d * h * w, h * w, w, 1


def formats_that_fit(sizes, strides):
    answer = []
    for name, wanted in (("contiguous", contiguous_strides(sizes)), ("channels_last", channels_last_strides(sizes))):
        bad = [d for d in range(len(sizes)) if sizes[d] != 1 and strides[d] != wanted[d]]
        if name == "contiguous" and min(sizes) == 0:
            bad = []
        if not bad:
            answer.append(name)
    return answer


def suggested_format(sizes, strides):
    minimum = 0
    if strides[1] == 0:
        return "contiguous"
    for d in [1, 3, 2, 0] if len(sizes) == 4 else [1, 4, 3, 2, 0]:
        if sizes[d] == 0:
            return "contiguous"
        if strides[d] < minimum:
            return "contiguous"
        if d == 0 and minimum == strides[1]:
            return "contiguous"
        minimum = strides[d]
        if sizes[d] > 1:
            minimum *= sizes[d]
    return "channels_last"
