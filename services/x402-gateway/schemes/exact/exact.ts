import type { Scheme } from "../scheme.ts";
import { eip3009 } from "./eip3009.ts";
import { permit2 } from "./permit2.ts";

/** Payments of exactly the offered amount, on EVM chains. */
export const exact = {
  methods: { permit2, eip3009 },
  methodIn: ({ assetTransferMethod }) => (assetTransferMethod === permit2.name ? permit2 : eip3009),
} satisfies Scheme;
