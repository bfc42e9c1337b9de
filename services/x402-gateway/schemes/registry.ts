import type { SchemeName, TransferMethod } from "../../../shared/chain/payment-schemes.ts";
import { exact } from "./exact/exact.ts";
import type { AssetTransferMethod, Scheme } from "./scheme.ts";

export const SCHEMES: Readonly<Record<SchemeName, Scheme>> = { exact };

/** A payment of an unknown scheme is read as one of this scheme, and is refused because no offer has its scheme. */
export const DEFAULT_SCHEME: Scheme = exact;

/** The methods of all schemes, by the name in the journal. */
export const METHODS: Readonly<Record<TransferMethod, AssetTransferMethod>> = { ...exact.methods };
