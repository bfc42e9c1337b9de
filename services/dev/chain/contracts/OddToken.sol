// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import "./Token.sol";

/// A token with behaviour that EIP-20 and EIP-3009 permit and that some real tokens have, but USDC does not. Anyone may
/// switch it on, because the tokens of the devnet are worthless.
contract OddToken is Token {
    struct Oddities {
        /// Transfer is emitted before AuthorizationUsed.
        bool transferFirst;
        /// Another event is emitted between AuthorizationUsed and Transfer.
        bool eventBetween;
        /// A transfer with a used nonce does not revert. It emits an event, and moves no money.
        bool silentIfUsed;
        /// Share of each transfer that goes to FEES_TO, in hundredths of a percent.
        uint16 feeBps;
        /// The share of feeBps is moved after the rest of the transfer, not before.
        bool feeLast;
        /// Decimals of the token. 0 means 6.
        uint8 decimals;
        /// Version in the EIP-712 domain. An empty text means 2.
        string version;
    }

    address private constant FEES_TO = address(0xFEE5);

    Oddities private _odd;
    mapping(address => bool) public isBlacklisted;

    event AuthorizationAlreadyUsed(address indexed authorizer, bytes32 indexed nonce);
    event Noted(address indexed authorizer);

    function behave(Oddities calldata odd) external {
        _odd = odd;
    }

    function blacklist(address account, bool isOn) external {
        isBlacklisted[account] = isOn;
    }

    function version() public view override returns (string memory) {
        return bytes(_odd.version).length == 0 ? super.version() : _odd.version;
    }

    function decimals() public view override returns (uint8) {
        return _odd.decimals == 0 ? super.decimals() : _odd.decimals;
    }

    function _spend(bytes32 kind, Authorization memory given, bytes memory signature) internal override {
        if (_odd.silentIfUsed && authorizationState[given.from][given.nonce]) {
            emit AuthorizationAlreadyUsed(given.from, given.nonce);
            return;
        }
        _requireUnused(given.from, given.nonce);
        _use(kind, given, signature);
        if (_odd.transferFirst) _move(given.from, given.to, given.value);
        else emit AuthorizationUsed(given.from, given.nonce);
        if (_odd.eventBetween) emit Noted(given.from);
        if (_odd.transferFirst) emit AuthorizationUsed(given.from, given.nonce);
        else _move(given.from, given.to, given.value);
    }

    function _move(address from, address to, uint256 value) internal override {
        require(!isBlacklisted[from] && !isBlacklisted[to], "Blacklistable: account is blacklisted");
        uint256 fee = value * _odd.feeBps / 10_000;
        if (fee > 0 && !_odd.feeLast) super._move(from, FEES_TO, fee);
        super._move(from, to, value - fee);
        if (fee > 0 && _odd.feeLast) super._move(from, FEES_TO, fee);
    }
}
