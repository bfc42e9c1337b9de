import type { SchemeName, TransferMethod } from "../../../shared/chain/payment-schemes.ts";
import { exact } from "./exact/exact.ts";
import type { AssetTransferMethod, Scheme } from "./scheme.ts";

export const SCHEMES: Readonly<Record<SchemeName, Scheme>> = { exact };

/** Scheme as which a payment of an unknown scheme is read. Such a payment is refused later, because no offer has its scheme. */
export const DEFAULT_SCHEME: Scheme = exact;

/** Methods of all schemes, by the name in the journal. */
export const METHODS: Readonly<Record<TransferMethod, AssetTransferMethod>> = { ...exact.methods };
