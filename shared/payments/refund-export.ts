import { randomBytes } from "node:crypto";

/** The id of an export of refunds: `r_` and 32 hex digits. */
export const EXPORT_ID = /^r_[0-9a-f]{32}$/;
export const NOT_AN_EXPORT_ID = "must be the id of a refund export: r_ and 32 lower-case hex digits";

/**
 * Maximum number of refunds in one export. Redis exports all of them in one step, and a multisig wallet, which several people
 * sign for, pays them in one transaction.
 */
export const EXPORTED_MAX = 500;

export function newExportId(): string {
  return `r_${randomBytes(16).toString("hex")}`;
}
