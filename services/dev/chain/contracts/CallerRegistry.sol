// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// Says who may call which service, for a gateway's restricted policy. Anyone may change the permissions.
contract CallerRegistry {
    /// A query about this service fails.
    uint64 public constant REVERTS = type(uint64).max;
    /// A query about this service burns all the gas that it gets.
    uint64 public constant BURNS_GAS = type(uint64).max - 1;

    mapping(uint64 serviceId => mapping(address caller => bool)) private permitted;

    function permit(uint64 serviceId, address caller, bool allowed) external {
        permitted[serviceId][caller] = allowed;
    }

    function isPermittedCaller(uint64 serviceId, address caller) external view returns (bool) {
        require(serviceId != REVERTS, "CallerRegistry: cannot tell");
        if (serviceId == BURNS_GAS) assert(_endless());
        return permitted[serviceId][caller];
    }

    function _endless() private view returns (bool) {
        uint256 turns;
        while (gasleft() > 0) turns++;
        return turns == 0;
    }
}
