// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import "./Wallet.sol";

/// Deploys wallets at addresses that are known in advance (CREATE2). So a wallet can sign a payment before it is
/// deployed, as ERC-6492 describes.
contract WalletFactory {
    event WalletCreated(address indexed wallet, address indexed owner);

    /// Creates the wallet with this owner and salt, and returns its address. If it exists, only returns the address.
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
