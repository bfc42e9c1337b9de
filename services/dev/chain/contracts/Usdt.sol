// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// The devnet's substitute for USDT. It has no EIP-3009 and no permit, and its transfers return nothing. It has an
/// optional fee and a list of blocked accounts. Anyone can mint. Like the original, it reverts without a revert string.
contract Usdt {
    string public constant name = "Tether USD";
    string public constant symbol = "USDT";
    uint8 public constant decimals = 6;

    address private constant FEES_TO = address(0xFEE5);

    uint256 public totalSupply;
    mapping(address owner => uint256) public balanceOf;
    mapping(address owner => mapping(address spender => uint256)) public allowance;
    mapping(address account => bool) public isBlackListed;
    /// Fee of each transfer in hundredths of a percent (`basisPointsRate`), and the most that it can be (`maximumFee`).
    uint256 public basisPointsRate;
    uint256 public maximumFee;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Params(uint256 feeBasisPoints, uint256 maxFee);
    event AddedBlackList(address account);
    event RemovedBlackList(address account);

    /// Anyone may mint, because this money is worthless.
    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function setParams(uint256 newBasisPoints, uint256 newMaxFee) external {
        basisPointsRate = newBasisPoints;
        maximumFee = newMaxFee;
        emit Params(newBasisPoints, newMaxFee);
    }

    function addBlackList(address account) external {
        isBlackListed[account] = true;
        emit AddedBlackList(account);
    }

    function removeBlackList(address account) external {
        isBlackListed[account] = false;
        emit RemovedBlackList(account);
    }

    function transfer(address to, uint256 value) external {
        _move(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external {
        uint256 left = allowance[from][msg.sender];
        if (left < type(uint256).max) allowance[from][msg.sender] = _minus(left, value);
        _move(from, to, value);
    }

    /// An allowance can be changed only from zero, or to zero.
    function approve(address spender, uint256 value) external {
        require(value == 0 || allowance[msg.sender][spender] == 0);
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
    }

    function _move(address from, address to, uint256 value) private {
        require(!isBlackListed[from]);
        uint256 fee = value * basisPointsRate / 10_000;
        if (fee > maximumFee) fee = maximumFee;
        balanceOf[from] = _minus(balanceOf[from], value);
        balanceOf[to] += value - fee;
        if (fee > 0) {
            balanceOf[FEES_TO] += fee;
            emit Transfer(from, FEES_TO, fee);
        }
        emit Transfer(from, to, value - fee);
    }

    /// Subtracts. If `b` is larger than `a`, burns all the gas. The original does so too, because it uses `assert` and was
    /// compiled by an old compiler.
    function _minus(uint256 a, uint256 b) private pure returns (uint256) {
        assembly {
            if gt(b, a) { invalid() }
        }
        return a - b;
    }
}
