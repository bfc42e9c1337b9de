import { type Abi, BaseError, decodeErrorResult, type Hex } from "viem";
import type { Call, DevnetChain } from "./devnet.ts";

type Refusal = { readonly name: string; readonly args: readonly unknown[] };

/** The error that the call reverts with, decoded; undefined if it does not revert. Nothing is sent. */
export async function refusalOf(
  { client }: DevnetChain,
  { to, data }: Call,
  abi: Abi,
): Promise<Refusal | undefined> {
  try {
    await client.call({ to, data });
    return undefined;
  } catch (error) {
    const reverted =
      error instanceof BaseError ? error.walk((each) => "data" in (each as object)) : undefined;
    if (reverted === undefined || reverted === null) throw error;
    const { data: said } = reverted as unknown as { data: Hex };
    if (said === "0x") return { name: "", args: [] };
    const { errorName, args = [] } = decodeErrorResult({ abi, data: said });
    return { name: errorName, args };
  }
}
