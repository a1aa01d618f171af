"""Convolution, normalisation, pooling and interpolation."""

from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    Case,
    cases,
    images,
    rows,
    statistics,
)
from smoke.reference.reference import noise

CASES: dict[str, Case] = {
    # In 2.10 half types round the index of a maximum beyond 256 on a CPU (pytorch/pytorch#159936);
    # 2.13 has this function and is right.
    **cases(
        {
            "largest_of_many": lambda x: F.adaptive_max_pool2d(x, (5, 3)),
        },
        inputs=rows(1, 2, 12, 31, 43),
        spared="NaN infinity",
        since="linear_cross_entropy",
    ),
    # Fast convolutions add up infinity and its negative.
    **cases(
        {
            "group_norm": lambda x: F.group_norm(x, 4),
            "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
            "norms of hundreds": lambda x: (
                F.batch_norm(x * 128, None, None, training=True),
                F.group_norm(x * 128, 4),
                F.instance_norm(x * 128),
                F.layer_norm(x * 128, x.shape[1:]),
            ),
            "group_norm_eps": lambda x: F.group_norm(
                x / 99, 3, x[0, :, 0, 0], x[1, :, 0, 0], eps=1e-2
            ),
            "statistics": lambda x: statistics(x[..., :3, :3]),
            "instance_norm": F.instance_norm,
            "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1),
            "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
            "dilated_pool": lambda x: F.max_pool2d(
                x, 3, 1, 1, dilation=2, ceil_mode=True
            ),
            "uneven_pool": lambda x: F.avg_pool2d(
                x, 3, 2, 1, ceil_mode=True, count_include_pad=False
            ),
            "adaptive_pool": lambda x: F.adaptive_avg_pool2d(x, 7),
            "largest": lambda x: F.adaptive_max_pool2d(x[..., :17, :15], (5, 3)),
            "pixels": lambda x: F.pixel_shuffle(x, 2),
            "glu": lambda x: F.glu(x, 1),
            "nearest": lambda x: F.interpolate(x, scale_factor=2.0),
            "exact": lambda x: F.interpolate(x, size=(50, 61), mode="nearest-exact"),
            "smaller": lambda x: F.interpolate(x, size=(5, 11), mode="area"),
            "unfold": lambda x: F.unfold(x, 3),
            "fold": lambda x: F.fold(F.unfold(x, 3), x.shape[-2:], 3),
            "reflect": lambda x: F.pad(x, (4, 3, 2, 5), mode="reflect"),
            "circular": lambda x: F.pad(x, (4, 3, 2, 5), mode="circular"),
            "replicate": lambda x: F.pad(x, (4, 3, 2, 5), mode="replicate"),
            "softmax_of_channels": lambda x: x.log_softmax(1) + x.softmax(2),
            "sums_of_channels": lambda x: (x.sum((0, 2, 3)), x.amax((2, 3))),
            "permute": lambda x: x.permute(3, 0, 2, 1).contiguous().flatten(1),
        },
        inputs=rows(1, 2, 12, 31, 43),
        spared="NaN infinity",
    ),
    # A coordinate of up to 61 is rounded, thrice, which shifts it by 1e-5 pixels.
    **cases(
        {
            "bilinear": lambda x: F.interpolate(x, size=(50, 61), mode="bilinear"),
            "bicubic": lambda x: F.interpolate(x, size=(50, 61), mode="bicubic"),
            "aligned": lambda x: F.interpolate(
                x, size=(50, 61), mode="bilinear", align_corners=True
            ),
            "aligned bicubic": lambda x: F.interpolate(
                x, size=(50, 61), mode="bicubic", align_corners=True
            ),
        },
        inputs=rows(1, 2, 12, 31, 43),
        float32=3e-05,
        spared="NaN infinity",
    ),
    **cases(
        {
            "grid_sample": lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        },
        inputs=lambda: (noise(2, 12, 31, 43), noise(2, 20, 20, 2)),
        roundings=0,
        float32=3e-05,
    ),
    **cases(
        {
            "conv1d": lambda x, w: F.conv1d(x.flatten(2), w.flatten(2), padding=1),
            "conv2d": F.conv2d,
            "conv2d stride": lambda x, w: F.conv2d(x, w, stride=2, padding=1),
            "conv2d of points": lambda x, w: (
                F.conv2d(x[..., :2, :2], w[..., :1, :1], stride=2),
                F.conv_transpose2d(x[..., :2, :2], w[..., :1, :1], stride=2),
            ),
            "conv2d dilation": lambda x, w: F.conv2d(x, w, dilation=2, padding=2),
            "conv2d transposed": lambda x, w: F.conv_transpose2d(
                x, w, stride=2, padding=1
            ),
            "conv2d transposed, more": lambda x, w: F.conv_transpose2d(
                x, w, stride=2, padding=1, output_padding=1
            ),
            "conv3d": lambda x, w: F.conv3d(
                x.unflatten(-1, (29, 1)),
                w.unsqueeze(-1).repeat(1, 1, 1, 1, 3),
                padding=1,
            ),
        },
        inputs=images(1),
        spared="NaN infinity",
    ),
    **cases(
        {
            "conv2d groups": lambda x, w: F.conv2d(x, w, groups=4),
            "conv1d groups": lambda x, w: F.conv1d(
                x.flatten(2), w.flatten(2), groups=4, stride=2, dilation=3
            ),
        },
        inputs=images(4),
        spared="NaN infinity",
    ),
    # torch 2.13's CPU writes no gradient of such weights in bfloat16.
    **cases(
        {
            "conv2d groups, dilation": lambda x, w: F.conv2d(
                x, w, groups=4, dilation=2, padding=2
            ),
            "conv2d transposed, groups": lambda x, w: F.conv_transpose2d(
                x, w, groups=4, dilation=2
            ),
        },
        inputs=images(4),
        spared="NaN infinity channels-last mixed",
    ),
    **cases(
        {
            "conv2d depthwise": lambda x, w: F.conv2d(x, w, groups=32, padding=1),
        },
        inputs=images(32),
        spared="NaN infinity",
    ),
}
