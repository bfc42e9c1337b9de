import type { Scheme } from "../scheme.ts";
import { eip3009 } from "./eip3009.ts";
import { permit2 } from "./permit2.ts";

const methods = { permit2, eip3009 };

/** Payments of exactly the offered amount, on EVM chains. */
export const exact = {
  pays: (value, amount) => value === amount,
  methods,
  methodIn: ({ assetTransferMethod: wanted }) =>
    Object.values(methods).find(({ name }) => name === wanted) ?? eip3009,
} satisfies Scheme;
