import type { TransferMethod } from "../../../shared/chain/transfer-methods.ts";
import { eip3009 } from "./exact/eip3009.ts";
import { permit2 } from "./exact/permit2.ts";
import type { Scheme } from "./scheme.ts";

const BY_METHOD: Readonly<Record<TransferMethod, Scheme>> = { permit2, eip3009 };

/** A payload with the members of several is read as the first of them. */
export const SCHEMES: readonly Scheme[] = Object.values(BY_METHOD);

/** A payload or an offer that names none means this one. */
export const DEFAULT_SCHEME: Scheme = eip3009;

export function schemeOf(method: TransferMethod): Scheme {
  return BY_METHOD[method];
}
