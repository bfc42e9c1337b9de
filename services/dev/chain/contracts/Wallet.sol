// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import "./ContractWallet.sol";

/// A wallet that is a contract, and confirms by ERC-1271 that its owner signed. The owner can be changed at any time,
/// and so can the way in which the wallet answers. Tests use this to imitate faulty and hostile wallets.
contract Wallet is IContractWallet {
    enum Answers {
        /// Says yes to a signature of its owner, plain or wrapped (`isValidSignature`).
        Truly,
        /// Says yes only to a wrapped signature of its owner.
        TrulyIfWrapped,
        /// Says no to any signature.
        Never,
        /// Says yes to any signature.
        Always,
        /// Reverts.
        Reverts,
        /// Burns all the gas that it gets.
        BurnsGas,
        /// Returns a word that ERC-1271 does not define.
        Nonsense,
        /// Returns yes, followed by other bytes in the same word.
        DirtyYes,
        /// Returns the four bytes of a yes without the rest of the word.
        ShortYes,
        /// Returns no data.
        Nothing,
        /// Returns a yes and a megabyte of zeros.
        LongYes,
        /// Says yes to any signature while the gas price is 0, as in an eth_call, and no in a transaction.
        YesInCallsOnly
    }

    address public owner;
    Answers public answers;

    error NotOwner();

    constructor(address owner_) {
        owner = owner_;
    }

    modifier byOwner() {
        if (msg.sender != owner) revert NotOwner();
        _;
    }

    function execute(address to, bytes calldata data) external byOwner returns (bytes memory) {
        (bool succeeded, bytes memory returned) = to.call(data);
        if (!succeeded) {
            assembly {
                revert(add(returned, 0x20), mload(returned))
            }
        }
        return returned;
    }

    function setAnswers(Answers how) external byOwner {
        answers = how;
    }

    function setOwner(address to) external byOwner {
        owner = to;
    }

    /// Answers whether the owner signed the digest, in the way that `answers` sets. A wrapped signature is
    /// abi.encode(ownerIndex, signature), as wallets with several owners need it. This wallet has one owner, with index 0.
    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        if (answers == Answers.Truly || answers == Answers.TrulyIfWrapped) {
            bool bare = signature.length == 65;
            bool signed = bare
                ? answers == Answers.Truly && _signed(digest, signature)
                : _signedWrapped(digest, signature);
            return signed ? this.isValidSignature.selector : bytes4(0xffffffff);
        }
        return _misbehave();
    }

    function _misbehave() private view returns (bytes4 yes) {
        yes = this.isValidSignature.selector;
        Answers how = answers;
        if (how == Answers.Always) return yes;
        if (how == Answers.Never) return 0xffffffff;
        if (how == Answers.YesInCallsOnly) return tx.gasprice == 0 ? yes : bytes4(0xffffffff);
        if (how == Answers.Reverts) revert("Wallet: cannot tell");
        if (how == Answers.BurnsGas) assert(_endless());
        uint256 bytesReturned = 32;
        bytes32 word = bytes32(yes);
        if (how == Answers.Nonsense) word = keccak256("nonsense");
        if (how == Answers.DirtyYes) word |= bytes32(uint256(1));
        if (how == Answers.ShortYes) bytesReturned = 4;
        if (how == Answers.Nothing) bytesReturned = 0;
        if (how == Answers.LongYes) bytesReturned = 1 << 20;
        assembly {
            let at := mload(0x40)
            mstore(at, word)
            return(at, bytesReturned)
        }
    }

    function _signedWrapped(bytes32 digest, bytes calldata wrapped) private view returns (bool) {
        if (wrapped.length < 96) return false;
        (uint256 ownerIndex, bytes memory signature) = abi.decode(wrapped, (uint256, bytes));
        return ownerIndex == 0 && _signed(digest, signature);
    }

    function _signed(bytes32 digest, bytes memory signature) private view returns (bool) {
        if (signature.length != 65) return false;
        bytes32 r;
        bytes32 s;
        assembly {
            r := mload(add(signature, 0x20))
            s := mload(add(signature, 0x40))
        }
        address signer = ecrecover(digest, uint8(signature[64]), r, s);
        return signer != address(0) && signer == owner;
    }

    function _endless() private view returns (bool) {
        uint256 turns;
        while (gasleft() > 0) turns++;
        return turns == 0;
    }
}
