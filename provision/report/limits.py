"""Every limit by which a measured number is compared; docs/decisions/14-judging-numbers.md says why."""

import math

# A rate beside the median of its host.
FEWEST = 8  # earlier runs; fewer say too little about the noise of a host
REPEATS = 3  # most further measurements of a rate that looks slow; the best counts
AT_ONCE = 0.8  # of the median, below which one run is slower
TWICE = 0.91  # below which one run is measured again, and two in a row are slower
STOLEN = 0.05  # of the processor's time, from which a host is too busy to compare its numbers
MORE_PRESSURE = 0.25  # of the time, above its usual pressure, from which it is

# Truth beside its last good result.
ERROR_GROWS = 3.0  # another kernel for the same operation stays within two
NEGLIGIBLE = 0.01  # of its limit: an error below is rounding
MEMORY_SHRINKS = 1.02  # drivers reserve some

# A node beside those of the same target, suite, device and lock.
FEWEST_NODES = 3  # that can have something in common
OUTLIER = math.log(1 / 0.85)  # least depth of a rate below that of its group
SPREADS = 3.5  # deviations of a group, beyond which a rate is no noise
