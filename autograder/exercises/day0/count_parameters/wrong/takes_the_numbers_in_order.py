"""wrong count of a Conv2d

Takes a layer's numbers by their place in its dictionary, not by their names.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        numbers = [value for key, value in layer.items() if key != "kind"]
        if layer["kind"] == "Conv2d":
            inputs, outputs, kernel, groups, bias = numbers if isinstance(numbers[2], tuple) else [1, 1, (1, 1), 1, 0]
            counts.append(outputs * (inputs // groups * kernel[0] * kernel[1] + bias))
        elif layer["kind"] == "Linear":
            inputs, outputs, bias = numbers
            counts.append(outputs * (inputs + bias))
        elif layer["kind"] == "BatchNorm2d":
            counts.append(2 * numbers[0])
        else:
            counts.append(0)
    return counts
