// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// Interface of ERC-1271, by which a contract confirms that a signature is its own.
interface IContractWallet {
    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4);
}
