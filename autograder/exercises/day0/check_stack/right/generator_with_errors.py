"""A generator that walks the stack and complains through one inner function."""


def walk(shape, layers):
    for position, layer in enumerate(layers):

        def demand(fits, why):
            if not fits:
                raise ValueError(f"layer {position}: {why}")

        match layer:
            case {"kind": "Conv2d" | "MaxPool2d", "kernel_size": kernel, "stride": stride}:
                demand(len(shape) == 4, "flat")
                batch, channels, *image = shape
                demand(layer.get("in_channels", channels) == channels, "channels")
                padded = [size + 2 * layer.get("padding", 0) for size in image]
                image = [len(range(0, size - kernel + 1, stride or kernel)) for size in padded]
                demand(all(image), "too small")
                shape = (batch, layer.get("out_channels", channels), *image)
            case {"kind": "Flatten"}:
                batch, *rest = shape
                features = 1
                while rest:
                    features *= rest.pop()
                shape = (batch, features)
            case {"kind": "Linear", "in_features": features}:
                *kept, last = shape
                demand(last == features, "features")
                shape = (*kept, layer["out_features"])
        yield shape


def shapes_through(input_shape, layers):
    return list(walk(tuple(input_shape), layers))
