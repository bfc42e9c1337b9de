// SPDX-License-Identifier: MIT
pragma solidity ^0.8.24;

contract PoolToken {
    uint8 public immutable decimals;

    constructor(uint8 decimals_) {
        decimals = decimals_;
    }
}

/// The oracle of a Uniswap v3 pool: ticks accumulate by time, and `observe` interpolates between what was written.
contract Pool {
    struct Observation {
        uint32 moment;
        int56 tickCumulative;
    }

    address public immutable token0;
    address public immutable token1;
    int24 public tick;
    Observation[] private observations;

    constructor(address token0_, address token1_, int24 tick_) {
        token0 = token0_;
        token1 = token1_;
        tick = tick_;
        observations.push(Observation(uint32(block.timestamp), 0));
    }

    /// A trade moves the price, as of now.
    function trade(int24 to) external {
        Observation memory last = observations[observations.length - 1];
        observations.push(Observation(uint32(block.timestamp), cumulativeAfter(last, uint32(block.timestamp))));
        tick = to;
    }

    function observe(
        uint32[] calldata secondsAgos
    ) external view returns (int56[] memory tickCumulatives, uint160[] memory secondsPerLiquidityCumulativeX128s) {
        tickCumulatives = new int56[](secondsAgos.length);
        secondsPerLiquidityCumulativeX128s = new uint160[](secondsAgos.length);
        for (uint256 i = 0; i < secondsAgos.length; i++) {
            tickCumulatives[i] = cumulativeAt(uint32(block.timestamp) - secondsAgos[i]);
        }
    }

    function cumulativeAt(uint32 target) private view returns (int56) {
        require(observations[0].moment <= target, "OLD");
        uint256 i = observations.length - 1;
        while (observations[i].moment > target) i--;
        Observation memory before = observations[i];
        if (i == observations.length - 1) return cumulativeAfter(before, target);
        Observation memory next = observations[i + 1];
        int56 span = int56(uint56(next.moment - before.moment));
        int56 slope = (next.tickCumulative - before.tickCumulative) / span;
        return before.tickCumulative + slope * int56(uint56(target - before.moment));
    }

    function cumulativeAfter(Observation memory last, uint32 target) private view returns (int56) {
        return last.tickCumulative + int56(tick) * int56(uint56(target - last.moment));
    }
}
