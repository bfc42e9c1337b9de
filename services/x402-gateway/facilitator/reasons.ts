/*
 * What facilitators give as `invalidReason` and `errorReason` is an open set: @x402/evm 2.27 differs from the protocol's
 * own list, and vendors add theirs. So each table lists what is known to be one thing, and anything else is the other.
 * Families that differ in their prefix alone (`invalid_exact_evm_...`) are listed by their ending.
 */

/** Nothing that a payer signs changes these: the token, the network or the facilitator is configured wrongly. */
const OPERATOR_FAULTS: readonly string[] = [
  "token_name_mismatch",
  "token_version_mismatch",
  "missing_eip712_domain",
  "asset_not_deployed_contract",
  "eip3009_not_supported",
  "invalid_payment_requirements",
  "unsupported_scheme",
  "unsupported_payload_type",
  "invalid_scheme",
  "invalid_exact_evm_scheme",
  "invalid_network",
  "network_mismatch",
  "invalid_x402_version",
  "recipient_mismatch",
  "permit2_proxy_not_deployed",
  "eip6492_factory_not_allowed",
];

/** The facilitator could not find out: another one may. */
const VERIFY_FAILURES: readonly string[] = ["unexpected_verify_error"];

/**
 * Said of a settlement that may well have happened: pending, sent and not confirmed, or made by an earlier request
 * whose answer was lost.
 */
const OPEN_SETTLEMENTS: readonly string[] = [
  "settlement_pending",
  "duplicate_settlement",
  "nonce_already_used",
  "permit2_invalid_nonce",
  "transaction_failed",
  "transfer_event_mismatch",
  "invalid_transaction_state",
  "unexpected_settle_error",
];

export function isOperatorFault(reason: string): boolean {
  return isListed(OPERATOR_FAULTS, reason);
}

export function isVerifyFailure(reason: string): boolean {
  return isListed(VERIFY_FAILURES, reason);
}

export function isOpenSettlement(reason: string): boolean {
  return isListed(OPEN_SETTLEMENTS, reason);
}

function isListed(endings: readonly string[], reason: string): boolean {
  return endings.some((ending) => reason === ending || reason.endsWith(`_${ending}`));
}
