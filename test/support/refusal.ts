import { type Abi, BaseError, decodeErrorResult, type Hex, RpcRequestError } from "viem";
import type { Call, DevnetChain } from "./devnet.ts";

type Refusal = { readonly name: string; readonly args: readonly unknown[] };

/**
 * Simulates a call and returns the decoded error with which it reverts; without a name if it gives no reason. Returns
 * undefined if the call does not revert. Sends nothing.
 */
export async function refusalOf(
  { client }: DevnetChain,
  { to, data }: Call,
  abi: Abi,
): Promise<Refusal | undefined> {
  try {
    await client.call({ to, data });
    return undefined;
  } catch (error) {
    const answer =
      error instanceof BaseError ? error.walk((each) => each instanceof RpcRequestError) : undefined;
    if (!(answer instanceof RpcRequestError)) throw error;
    const revertData = (answer.data ?? "0x") as Hex;
    if (revertData === "0x") return { name: "", args: [] };
    const { errorName, args = [] } = decodeErrorResult({ abi, data: revertData });
    return { name: errorName, args };
  }
}
