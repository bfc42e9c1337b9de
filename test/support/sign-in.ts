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

/** Returns the sign-in challenge of a 402, from its header. */
export function signInAskedBy(challenge: Pick<Answer, "headers">): SignInExtension {
  const header = Buffer.from(String(challenge.headers["payment-required"]), "base64").toString();
  const { extensions } = JSON.parse(header) as PaymentRequired;
  return extensions?.["sign-in-with-x"] as SignInExtension;
}

/** Makes a signer for the official client, which does not know whether a key or a wallet signs. */
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
  /** Changes to the challenge before it is signed and sent. */
  signed?: Changes;
  /** Changes to what is sent after the signing. */
  sent?: Changes;
};

/** Makes the header of a sign-in, whose text the official client writes. It is valid unless changes are given. */
export async function signInAs(
  { info, supportedChains }: SignInExtension,
  { payer, signed = {}, sent = {} }: SignInChoice,
): Promise<{ "SIGN-IN-WITH-X": string }> {
  const payload = { ...info, ...supportedChains[0], address: payer.address, ...signed } as SIWxPayload;
  const message = createSIWxMessage(payload as Parameters<typeof createSIWxMessage>[0], payload.address);
  const signature = await messageSigner(payer).signMessage({ message });
  return { "SIGN-IN-WITH-X": encodeSIWxHeader({ ...payload, signature, ...sent } as SIWxPayload) };
}
