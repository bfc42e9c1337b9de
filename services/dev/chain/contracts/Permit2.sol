// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import "./ContractWallet.sol";

struct TokenPermissions {
    address token;
    uint256 amount;
}

struct PermitTransferFrom {
    TokenPermissions permitted;
    uint256 nonce;
    uint256 deadline;
}

struct SignatureTransferDetails {
    address to;
    uint256 requestedAmount;
}

/// The devnet's substitute for Uniswap's Permit2, with our own code. It has only the functions that move one token by
/// its owner's signature, without allowances and batches. Its checks, errors, event and storage of nonces are those of
/// the contract at 0x000000000022D473030F116dDEE9F6B43aC78BA3 on public chains.
contract Permit2 {
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)");
    bytes32 private constant PERMISSIONS_TYPEHASH = keccak256("TokenPermissions(address token,uint256 amount)");
    bytes32 private constant TRANSFER_TYPEHASH = keccak256(
        "PermitTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline)TokenPermissions(address token,uint256 amount)"
    );
    /// Beginning of the EIP-712 type that the owner signs. The spender, such as ExactPermit2Proxy, passes the rest: the
    /// type of its witness, which is further data under the same signature.
    string private constant WITNESS_TRANSFER_TYPE =
        "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,";

    /// Used nonces of each owner. A nonce is used if bit `nonce & 0xff` of word `nonce >> 8` is set.
    mapping(address owner => mapping(uint256 word => uint256)) public nonceBitmap;

    event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask);

    error InvalidNonce();
    error SignatureExpired(uint256 signatureDeadline);
    error InvalidAmount(uint256 maxAmount);
    error InvalidSignatureLength();
    error InvalidSignature();
    error InvalidSigner();
    error InvalidContractSignature();

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN_TYPEHASH, keccak256("Permit2"), block.chainid, address(this)));
    }

    function permitTransferFrom(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata details,
        address owner,
        bytes calldata signature
    ) external {
        bytes32 content = keccak256(
            abi.encode(TRANSFER_TYPEHASH, _hash(permit.permitted), msg.sender, permit.nonce, permit.deadline)
        );
        _spend(permit, details, owner, content, signature);
    }

    function permitWitnessTransferFrom(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata details,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external {
        bytes32 kind = keccak256(abi.encodePacked(WITNESS_TRANSFER_TYPE, witnessTypeString));
        bytes32 content = keccak256(
            abi.encode(kind, _hash(permit.permitted), msg.sender, permit.nonce, permit.deadline, witness)
        );
        _spend(permit, details, owner, content, signature);
    }

    function invalidateUnorderedNonces(uint256 word, uint256 mask) external {
        nonceBitmap[msg.sender][word] |= mask;
        emit UnorderedNonceInvalidation(msg.sender, word, mask);
    }

    function _spend(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata details,
        address owner,
        bytes32 content,
        bytes calldata signature
    ) private {
        if (block.timestamp > permit.deadline) revert SignatureExpired(permit.deadline);
        if (details.requestedAmount > permit.permitted.amount) revert InvalidAmount(permit.permitted.amount);
        _useNonce(owner, permit.nonce);
        _requireSigned(owner, keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), content)), signature);
        _transfer(permit.permitted.token, owner, details.to, details.requestedAmount);
    }

    function _hash(TokenPermissions calldata permitted) private pure returns (bytes32) {
        return keccak256(abi.encode(PERMISSIONS_TYPEHASH, permitted));
    }

    function _useNonce(address owner, uint256 nonce) private {
        uint256 bit = 1 << (nonce & 0xff);
        uint256 used = nonceBitmap[owner][nonce >> 8];
        if (used & bit != 0) revert InvalidNonce();
        nonceBitmap[owner][nonce >> 8] = used | bit;
    }

    /// Reverts unless the owner has signed the digest. If the owner is a contract, only its own answer counts (ERC-1271),
    /// even if the signature is that of a key.
    function _requireSigned(address owner, bytes32 digest, bytes calldata signature) private view {
        if (owner.code.length > 0) {
            bytes4 answer = IContractWallet(owner).isValidSignature(digest, signature);
            if (answer != IContractWallet.isValidSignature.selector) revert InvalidContractSignature();
            return;
        }
        address signer = _recover(digest, signature);
        if (signer == address(0)) revert InvalidSignature();
        if (signer != owner) revert InvalidSigner();
    }

    /// Returns the address whose key made the signature. The signature has 65 bytes: r, s and v. Or it has the form of
    /// EIP-2098 with 64 bytes, in which the highest bit of s holds v.
    function _recover(bytes32 digest, bytes calldata signature) private pure returns (address) {
        if (signature.length == 65) {
            return ecrecover(digest, uint8(signature[64]), bytes32(signature[:32]), bytes32(signature[32:64]));
        }
        if (signature.length != 64) revert InvalidSignatureLength();
        uint256 vs = uint256(bytes32(signature[32:]));
        return ecrecover(digest, uint8(vs >> 255) + 27, bytes32(signature[:32]), bytes32((vs << 1) >> 1));
    }

    /// Moves the tokens. A token such as USDT returns nothing on success. If the token reverts, the reason that it gives is
    /// lost, as in the original.
    function _transfer(address token, address from, address to, uint256 value) private {
        (bool succeeded, bytes memory answer) =
            token.call(abi.encodeWithSignature("transferFrom(address,address,uint256)", from, to, value));
        bool agrees = answer.length == 0 || (answer.length >= 32 && uint256(bytes32(answer)) == 1);
        require(succeeded && agrees, "TRANSFER_FROM_FAILED");
    }
}
