// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import "./ContractWallet.sol";

/// The devnet's substitute for USDC: an ERC-20 token with EIP-3009 and EIP-2612, which anyone can mint. Nothing in its
/// storage comes from a constructor. So it works if only its runtime code is put at an address, as the devnet does. Its
/// revert strings are those of Circle's token, because facilitators recognize the reason of a failure by them.
contract Token {
    string public constant name = "USDC";
    string public constant symbol = "USDC";

    bytes32 public constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant RECEIVE_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant CANCEL_AUTHORIZATION_TYPEHASH =
        keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    bytes32 public constant PERMIT_TYPEHASH =
        keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");

    /// Half of the order of the curve secp256k1. By EIP-2, a signature whose `s` is larger is invalid.
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    uint256 public totalSupply;
    mapping(address owner => uint256) public balanceOf;
    mapping(address owner => mapping(address spender => uint256)) public allowance;
    mapping(address owner => uint256) public nonces;
    mapping(address authorizer => mapping(bytes32 nonce => bool)) public authorizationState;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    struct Authorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    function version() public view virtual returns (string memory) {
        return "2";
    }

    function decimals() public view virtual returns (uint8) {
        return 6;
    }

    /// Anyone may mint, because this money is worthless.
    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        _approve(msg.sender, spender, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint256 left = allowance[from][msg.sender];
        require(value <= left, "ERC20: transfer amount exceeds allowance");
        allowance[from][msg.sender] = left - value;
        _move(from, to, value);
        return true;
    }

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256(bytes(name)), keccak256(bytes(version())), block.chainid, address(this))
        );
    }

    function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)
        external
    {
        require(block.timestamp <= deadline, "FiatTokenV2: permit is expired");
        bytes32 content = keccak256(abi.encode(PERMIT_TYPEHASH, owner, spender, value, nonces[owner]++, deadline));
        require(_signed(owner, content, abi.encodePacked(r, s, v)), "EIP2612: invalid signature");
        _approve(owner, spender, value);
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        Authorization memory given = Authorization(from, to, value, validAfter, validBefore, nonce);
        _spend(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, given, abi.encodePacked(r, s, v));
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) external {
        Authorization memory given = Authorization(from, to, value, validAfter, validBefore, nonce);
        _spend(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, given, signature);
    }

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        require(to == msg.sender, "FiatTokenV2: caller must be the payee");
        Authorization memory given = Authorization(from, to, value, validAfter, validBefore, nonce);
        _spend(RECEIVE_WITH_AUTHORIZATION_TYPEHASH, given, abi.encodePacked(r, s, v));
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external {
        cancelAuthorization(authorizer, nonce, abi.encodePacked(r, s, v));
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, bytes memory signature) public {
        _requireUnused(authorizer, nonce);
        bytes32 content = keccak256(abi.encode(CANCEL_AUTHORIZATION_TYPEHASH, authorizer, nonce));
        require(_signed(authorizer, content, signature), "FiatTokenV2: invalid signature");
        authorizationState[authorizer][nonce] = true;
        emit AuthorizationCanceled(authorizer, nonce);
    }

    /// Marks an authorization as used, and moves the money. It emits AuthorizationUsed directly before Transfer. Observers
    /// know by this which transfer an authorization made.
    function _spend(bytes32 kind, Authorization memory given, bytes memory signature) internal virtual {
        _requireUnused(given.from, given.nonce);
        _use(kind, given, signature);
        emit AuthorizationUsed(given.from, given.nonce);
        _move(given.from, given.to, given.value);
    }

    function _use(bytes32 kind, Authorization memory given, bytes memory signature) internal {
        require(block.timestamp > given.validAfter, "FiatTokenV2: authorization is not yet valid");
        require(block.timestamp < given.validBefore, "FiatTokenV2: authorization is expired");
        require(_signed(given.from, keccak256(abi.encode(kind, given)), signature), "FiatTokenV2: invalid signature");
        authorizationState[given.from][given.nonce] = true;
    }

    function _requireUnused(address authorizer, bytes32 nonce) internal view {
        require(!authorizationState[authorizer][nonce], "FiatTokenV2: authorization is used or canceled");
    }

    function _move(address from, address to, uint256 value) internal virtual {
        require(to != address(0), "ERC20: transfer to the zero address");
        require(value <= balanceOf[from], "ERC20: transfer amount exceeds balance");
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function _approve(address owner, address spender, uint256 value) private {
        allowance[owner][spender] = value;
        emit Approval(owner, spender, value);
    }

    /// Returns whether the account `by` has signed the content. If it is a contract, the contract itself decides
    /// (ERC-1271). If not, the signature must be that of the account's key, as r, s and v.
    function _signed(address by, bytes32 content, bytes memory signature) private view returns (bool) {
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), content));
        if (by.code.length > 0) {
            bytes4 answer = IContractWallet(by).isValidSignature(digest, signature);
            return answer == IContractWallet.isValidSignature.selector;
        }
        require(signature.length == 65, "ECRecover: invalid signature length");
        bytes32 r;
        bytes32 s;
        uint8 v;
        assembly {
            r := mload(add(signature, 0x20))
            s := mload(add(signature, 0x40))
            v := byte(0, mload(add(signature, 0x60)))
        }
        require(uint256(s) <= HALF_ORDER, "ECRecover: invalid signature 's' value");
        require(v == 27 || v == 28, "ECRecover: invalid signature 'v' value");
        address signer = ecrecover(digest, v, r, s);
        return signer != address(0) && signer == by;
    }
}
