// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import "./Wallet.sol";

/// Deploys wallets at addresses that are known in advance (CREATE2), which ERC-6492 needs.
contract WalletFactory {
    event WalletCreated(address indexed wallet, address indexed owner);

    /// Returns the existing wallet if it was created before.
    function createWallet(address owner, uint256 salt) external returns (address wallet) {
        wallet = addressOf(owner, salt);
        if (wallet.code.length > 0) return wallet;
        new Wallet{salt: bytes32(salt)}(owner);
        emit WalletCreated(wallet, owner);
    }

    function addressOf(address owner, uint256 salt) public view returns (address) {
        bytes32 code = keccak256(abi.encodePacked(type(Wallet).creationCode, abi.encode(owner)));
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", address(this), salt, code)))));
    }
}
