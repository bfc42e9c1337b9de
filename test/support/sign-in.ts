import type { PaymentRequired } from "@x402/core/types";
import {
  createSIWxMessage,
  encodeSIWxHeader,
  type SIWxExtensionInfo,
  type SIWxPayload,
  type SupportedChain,
} from "@x402/extensions/sign-in-with-x";
import { privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../services/dev/chain/chain.ts";
import type { Answer } from "./http.ts";
import type { Payer } from "./sign-payment.ts";

export type SignInExtension = { info: SIWxExtensionInfo; supportedChains: SupportedChain[]; schema: object };

/** What a 402 asks to sign in with, from its header. */
export function signInAskedBy(challenge: Pick<Answer, "headers">): SignInExtension {
  const header = Buffer.from(String(challenge.headers["payment-required"]), "base64").toString();
  const { extensions } = JSON.parse(header) as PaymentRequired;
  return extensions?.["sign-in-with-x"] as SignInExtension;
}

/** A signer for the official client, which does not know whether it signs for a key or for a wallet. */
export function messageSigner(payer: Payer) {
  return {
    address: payer.address,
    async signMessage({ message }: { message: string }): Promise<Hex> {
      const signature = await privateKeyToAccount(payer.privateKey).signMessage({ message });
      return payer.wrap === undefined ? signature : payer.wrap(signature);
    },
  };
}

type Changes = Partial<Record<keyof SIWxPayload, unknown>>;

type SignInChoice = {
  payer: Payer;
  /** What is signed, and sent, in place of what was asked. */
  signed?: Changes;
  /** What is sent in place of what was signed. */
  sent?: Changes;
};

/** The header of a sign-in, its text made by the official client; right unless something is changed. */
export async function signInAs(
  { info, supportedChains }: SignInExtension,
  { payer, signed = {}, sent = {} }: SignInChoice,
): Promise<{ "SIGN-IN-WITH-X": string }> {
  const said = { ...info, ...supportedChains[0], address: payer.address, ...signed } as SIWxPayload;
  const message = createSIWxMessage(said as Parameters<typeof createSIWxMessage>[0], said.address);
  const signature = await messageSigner(payer).signMessage({ message });
  return { "SIGN-IN-WITH-X": encodeSIWxHeader({ ...said, signature, ...sent } as SIWxPayload) };
}
