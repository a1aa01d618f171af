"""Convolution, normalisation, pooling and interpolation."""

from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import cases, drawn, statistics

PICTURES = drawn((2, 12, 31, 43))


def group_norm(x):
    return F.group_norm(x, 4)


def batch_norm(x):
    return F.batch_norm(x, None, None, training=True)


def norms_of_hundreds(x):
    yield batch_norm(x * 128)
    yield group_norm(x * 128)
    yield F.instance_norm(x * 128)
    yield F.layer_norm(x * 128, x.shape[1:])


def statistics_of_a_batch(x):
    return statistics(x[..., :3, :3])


def max_pool(x):
    return F.max_pool2d(x, 3, 2, 1)


def avg_pool(x):
    return F.avg_pool2d(x, 3, 2, 1)


def adaptive_pool(x):
    return F.adaptive_avg_pool2d(x, 7)


def largest(x):
    return F.adaptive_max_pool2d(x[..., :17, :15], (5, 3))


def largest_of_many(x):
    return F.adaptive_max_pool2d(x, (5, 3))


def nearest(x):
    return F.interpolate(x, scale_factor=2.0)


def unfold(x):
    return F.unfold(x, 3)


def reflected(x):
    return F.pad(x, (4, 3, 2, 5), mode="reflect")


def bilinear(x):
    return F.interpolate(x, size=(50, 61), mode="bilinear")


def bicubic(x):
    return F.interpolate(x, size=(50, 61), mode="bicubic", align_corners=True)


def grid_sample(x, grid):
    return F.grid_sample(x, grid.tanh(), align_corners=False)


def conv1d(x, weights):
    return F.conv1d(x.flatten(2), weights.flatten(2), padding=1)


def conv2d_stride(x, weights):
    return F.conv2d(x, weights, stride=2, padding=1)


def conv2d_dilation(x, weights):
    return F.conv2d(x, weights, dilation=2, padding=2)


def conv2d_transposed(x, weights):
    return F.conv_transpose2d(x, weights, stride=2, padding=1)


def conv2d_of_points(x, weights):
    points = x[..., :2, :2]
    filters = weights[..., :1, :1]
    yield F.conv2d(points, filters, stride=2)
    yield F.conv_transpose2d(points, filters, stride=2)


def conv3d(x, weights):
    filters = weights.unsqueeze(-1).repeat(1, 1, 1, 1, 3)
    volumes = x.unflatten(-1, (29, 1))
    return F.conv3d(volumes, filters, padding=1)


def conv2d_groups(x, weights):
    return F.conv2d(x, weights, groups=4)


def conv2d_groups_dilation(x, weights):
    return F.conv2d(x, weights, groups=4, dilation=2)


def conv2d_transposed_groups(x, weights):
    return F.conv_transpose2d(x, weights, groups=4, dilation=2)


def conv2d_depthwise(x, weights):
    return F.conv2d(x, weights, groups=32, padding=1)


def filtered(groups):
    """Make images of 32 channels, and the weights of a convolution in groups."""
    return drawn((2, 32, 25, 29), (32, 32 // groups, 3, 3))


# Fast convolutions, and the means of a norm, add up infinity and its negative.
UNDEFINED = "NaN infinity"
# In 2.10 half types round the index of a maximum beyond 256 on a CPU (pytorch/pytorch#159936);
# 2.13 has this function and is right.
NEW = [largest_of_many] if hasattr(F, "linear_cross_entropy") else []
CASES = {
    **cases(
        group_norm,
        batch_norm,
        norms_of_hundreds,
        statistics_of_a_batch,
        max_pool,
        avg_pool,
        adaptive_pool,
        largest,
        nearest,
        unfold,
        reflected,
        inputs=PICTURES,
        spared=UNDEFINED,
    ),
    **cases(*NEW, inputs=PICTURES, spared=UNDEFINED),
    # A coordinate of up to 61 is rounded, thrice, which shifts it by 1e-5 pixels. CUDA adds up the
    # gradient of a pixel in the type under test: of 3 rows, 380 parts; off by 10 roundings (H200).
    **cases(
        bilinear,
        bicubic,
        inputs=PICTURES,
        roundings=24,
        float32=3e-05,
        spared=UNDEFINED,
    ),
    **cases(
        grid_sample,
        inputs=drawn((2, 12, 31, 43), (2, 20, 20, 2)),
        roundings=0,
        float32=3e-05,
    ),
    **cases(
        F.conv2d,
        conv2d_stride,
        conv2d_dilation,
        conv2d_transposed,
        conv2d_of_points,
        conv1d,
        conv3d,
        inputs=filtered(1),
        spared=UNDEFINED,
    ),
    **cases(conv2d_groups, inputs=filtered(4), spared=UNDEFINED),
    # torch 2.13's CPU writes no gradient of such weights in bfloat16.
    **cases(
        conv2d_groups_dilation,
        conv2d_transposed_groups,
        inputs=filtered(4),
        spared=f"{UNDEFINED} channels-last mixed",
    ),
    **cases(conv2d_depthwise, inputs=filtered(32), spared=UNDEFINED),
}
