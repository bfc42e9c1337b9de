// SPDX-License-Identifier: MIT
pragma solidity ^0.8.24;

/// A Chainlink aggregator (AggregatorV3Interface) whose rounds anybody may write; a sequencer's feed is one too.
contract Aggregator {
    struct Round {
        uint80 roundId;
        int256 answer;
        uint256 startedAt;
        uint256 updatedAt;
        uint80 answeredInRound;
    }

    uint8 public immutable decimals;
    bool public broken;
    Round private latest;

    constructor(uint8 decimals_) {
        decimals = decimals_;
    }

    function write(Round calldata round) external {
        latest = round;
    }

    function setBroken(bool broken_) external {
        broken = broken_;
    }

    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        require(!broken, "No data present");
        return (latest.roundId, latest.answer, latest.startedAt, latest.updatedAt, latest.answeredInRound);
    }
}
