import { type Abi, BaseError, decodeErrorResult, type Hex, RpcRequestError } from "viem";
import type { Call, DevnetChain } from "./devnet.ts";

type Refusal = { readonly name: string; readonly args: readonly unknown[] };

/** The error that the call reverts with, decoded; without a name if it says none. Undefined if it does not revert. Nothing is sent. */
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
    const said = (answer.data ?? "0x") as Hex;
    if (said === "0x") return { name: "", args: [] };
    const { errorName, args = [] } = decodeErrorResult({ abi, data: said });
    return { name: errorName, args };
  }
}
