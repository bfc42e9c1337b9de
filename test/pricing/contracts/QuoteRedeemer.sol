// SPDX-License-Identifier: MIT
pragma solidity ^0.8.24;

/// Takes a job quote that its operator signed, once, from the one it was given to, on the inputs it was given for.
contract QuoteRedeemer {
    struct JobQuoteDetails {
        address requester;
        uint64 serviceId;
        uint8 jobIndex;
        uint256 price;
        uint64 timestamp;
        uint64 expiry;
        uint8 confidentiality;
        bytes32 inputsHash;
    }

    event Redeemed(bytes32 indexed digest, address indexed requester, uint64 serviceId, uint8 jobIndex, uint256 paid);

    error NoOperator();
    error NotTheRequester(address sender, address requester);
    error OtherInputs(bytes32 inputsHash, bytes32 quoted);
    error QuoteExpired(uint256 blockTime, uint64 expiry);
    error PriceTooLow(uint256 price);
    error WrongPayment(uint256 paid, uint256 price);
    error SignatureLength(uint256 length);
    error SignatureV(uint8 v);
    error SignatureHighS(bytes32 s);
    /// `recovered` is zero where the signature is nobody's.
    error NotSignedByOperator(address recovered);
    error AlreadyRedeemed(bytes32 digest);

    /// Lower prices are refused, whoever signed them.
    uint256 public constant LOWEST_PRICE = 100 wei;

    /// Half of the curve's order (SEC 2, secp256k1), rounded down: a signature and its twin have an `s` on either side.
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    bytes32 private constant DOMAIN_TYPE =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant QUOTE_TYPE =
        keccak256(
            "JobQuoteDetails(address requester,uint64 serviceId,uint8 jobIndex,uint256 price,uint64 timestamp,uint64 expiry,uint8 confidentiality,bytes32 inputsHash)"
        );

    address public immutable operator;
    mapping(bytes32 digest => bool) public redeemed;

    constructor(address operator_) {
        // What recovers nothing recovers the zero address.
        if (operator_ == address(0)) revert NoOperator();
        operator = operator_;
    }

    function redeem(
        JobQuoteDetails calldata quote,
        bytes calldata signature,
        bytes calldata inputs
    ) external payable returns (bytes32 digest) {
        if (msg.sender != quote.requester) revert NotTheRequester(msg.sender, quote.requester);
        bytes32 inputsHash = keccak256(inputs);
        if (inputsHash != quote.inputsHash) revert OtherInputs(inputsHash, quote.inputsHash);
        if (block.timestamp > quote.expiry) revert QuoteExpired(block.timestamp, quote.expiry);
        if (quote.price < LOWEST_PRICE) revert PriceTooLow(quote.price);
        if (msg.value != quote.price) revert WrongPayment(msg.value, quote.price);

        digest = digestOf(quote);
        address signer = recover(digest, signature);
        if (signer != operator) revert NotSignedByOperator(signer);

        // By digest, so that no second signature over the same quote is a second quote.
        if (redeemed[digest]) revert AlreadyRedeemed(digest);
        redeemed[digest] = true;
        emit Redeemed(digest, quote.requester, quote.serviceId, quote.jobIndex, msg.value);
    }

    /// What the operator signs (EIP-712).
    function digestOf(JobQuoteDetails calldata quote) public view returns (bytes32) {
        return keccak256(abi.encodePacked(hex"1901", domainSeparator(), keccak256(abi.encode(QUOTE_TYPE, quote))));
    }

    /// Of now, not of the deployment: after a fork of the chain the quotes of one side are not good on the other.
    function domainSeparator() public view returns (bytes32) {
        return
            keccak256(abi.encode(DOMAIN_TYPE, keccak256("TangleQuote"), keccak256("1"), block.chainid, address(this)));
    }

    function recover(bytes32 digest, bytes calldata signature) private pure returns (address) {
        if (signature.length != 65) revert SignatureLength(signature.length);
        bytes32 r = bytes32(signature[0:32]);
        bytes32 s = bytes32(signature[32:64]);
        uint8 v = uint8(signature[64]);
        if (v != 27 && v != 28) revert SignatureV(v);
        if (uint256(s) > HALF_ORDER) revert SignatureHighS(s);
        return ecrecover(digest, v, r, s);
    }
}
