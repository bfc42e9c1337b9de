// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// The devnet's substitute for DAI. It has 18 decimals, no EIP-3009, and a `permit` that differs from EIP-2612. A
/// transfer does not reduce an unlimited allowance. Anyone can mint. Its revert strings are those of the original.
contract Dai {
    string public constant name = "Dai Stablecoin";
    string public constant symbol = "DAI";
    string public constant version = "1";
    uint8 public constant decimals = 18;

    bytes32 public constant PERMIT_TYPEHASH =
        keccak256("Permit(address holder,address spender,uint256 nonce,uint256 expiry,bool allowed)");
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");

    uint256 public totalSupply;
    mapping(address owner => uint256) public balanceOf;
    mapping(address owner => mapping(address spender => uint256)) public allowance;
    mapping(address holder => uint256) public nonces;

    event Transfer(address indexed src, address indexed dst, uint256 wad);
    event Approval(address indexed src, address indexed guy, uint256 wad);

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256(bytes(name)), keccak256(bytes(version)), block.chainid, address(this))
        );
    }

    /// Anyone may mint, because this money is worthless.
    function mint(address to, uint256 wad) external {
        totalSupply += wad;
        balanceOf[to] += wad;
        emit Transfer(address(0), to, wad);
    }

    function transfer(address to, uint256 wad) external returns (bool) {
        return transferFrom(msg.sender, to, wad);
    }

    function transferFrom(address from, address to, uint256 wad) public returns (bool) {
        require(balanceOf[from] >= wad, "Dai/insufficient-balance");
        if (from != msg.sender) _useAllowance(from, wad);
        balanceOf[from] -= wad;
        balanceOf[to] += wad;
        emit Transfer(from, to, wad);
        return true;
    }

    function approve(address spender, uint256 wad) external returns (bool) {
        _approve(msg.sender, spender, wad);
        return true;
    }

    /// Gives the spender an unlimited allowance, or none, but never an amount. With an expiry of 0, the signature does not
    /// expire.
    function permit(
        address holder,
        address spender,
        uint256 nonce,
        uint256 expiry,
        bool allowed,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 content = keccak256(abi.encode(PERMIT_TYPEHASH, holder, spender, nonce, expiry, allowed));
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), content));
        require(holder != address(0), "Dai/invalid-address-0");
        require(holder == ecrecover(digest, v, r, s), "Dai/invalid-permit");
        require(expiry == 0 || block.timestamp <= expiry, "Dai/permit-expired");
        require(nonce == nonces[holder]++, "Dai/invalid-nonce");
        _approve(holder, spender, allowed ? type(uint256).max : 0);
    }

    function _useAllowance(address from, uint256 wad) private {
        uint256 left = allowance[from][msg.sender];
        if (left == type(uint256).max) return;
        require(left >= wad, "Dai/insufficient-allowance");
        allowance[from][msg.sender] = left - wad;
    }

    function _approve(address holder, address spender, uint256 wad) private {
        allowance[holder][spender] = wad;
        emit Approval(holder, spender, wad);
    }
}
