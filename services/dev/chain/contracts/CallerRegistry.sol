// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// Stores which account may call which service. A payment gateway whose policy is restricted asks such a contract.
/// Anyone may change the permissions, because the contract is only for the devnet.
contract CallerRegistry {
    /// Id of a service for which every query reverts.
    uint64 public constant REVERTS = type(uint64).max;
    /// Id of a service for which every query burns all the gas that it gets.
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
