// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// Who may call which service: what a gateway's restricted policy asks. Anybody may change it.
contract CallerRegistry {
    /// Asking about this service fails.
    uint64 public constant REVERTS = type(uint64).max;
    /// Asking about this service burns all the gas it is given.
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
