import { z } from "zod";
import { checksummed } from "../../../shared/chain/checksum.ts";
import { chainIdOf, isEvmNetwork } from "../../../shared/chain/encoding.ts";
import { toSignInText } from "../../../shared/chain/sign-in-message.ts";
import { createSigner, personalMessageDigest } from "../../../shared/chain/signatures.ts";
import { decodeBase64Json } from "../../../shared/http/base64-json.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import type { Answer } from "../http.ts";

/**
 * Text of a challenge: visible ASCII without backslashes. Line breaks are excluded, because a dishonest gateway could
 * use them to add lines to the text that the payer signs. Browsers read a backslash in a URL as a slash, but RFC 3986
 * does not permit it. So two programs could find different hosts in a URL with a backslash.
 */
const visible = z
  .string()
  .max(2000)
  .regex(/^[!-[\]-~]+$/);
const time = visible.refine((text) => /^\d{4}-\d\d-\d\dT/.test(text) && !Number.isNaN(Date.parse(text)));

/**
 * A challenge of the x402 extension sign-in-with-x. A challenge with further fields, such as `resources`, is refused,
 * because the payer's signature would then grant more than a sign-in.
 */
const Challenge = z.object({
  info: z.strictObject({
    domain: visible,
    uri: visible,
    statement: z
      .string()
      .max(500)
      .regex(/^[ -~]+$/),
    version: z.literal("1"),
    nonce: z.string().regex(/^[0-9A-Za-z]{8,500}$/),
    issuedAt: time,
    expirationTime: time.optional(),
    notBefore: time.optional(),
  }),
  supportedChains: z.array(z.object({ chainId: z.string(), type: z.string() })),
});

type SignIn = { headers: { "SIGN-IN-WITH-X": string } } | { problem: string };

/**
 * Makes the header with which a payer signs in at a URL, by the challenge in the URL's 402 answer (EIP-4361). The
 * domain and URI in the challenge must be those of the URL. Otherwise a dishonest gateway could pass on the challenge
 * of another server, and sign in there with the payer's signature.
 */
export function signInHeader(challenge: Answer, url: URL, payerKey: Secret): SignIn {
  const asked = readChallenge(challenge);
  if (asked === undefined) return { problem: "the 402 answer has no sign-in challenge that can be signed" };
  const { info, chainId } = asked;
  if (info.domain !== url.host || !isUrl(info.uri, url))
    return {
      problem: `the challenge is for ${info.uri} at ${info.domain}, not for ${url.href}; if you trust ${info.domain}, use its URL`,
    };
  if (info.expirationTime !== undefined && Date.parse(info.expirationTime) <= systemClock())
    return { problem: `the challenge expired at ${info.expirationTime}; check the clock of this machine` };
  const signer = createSigner(payerKey.reveal());
  const { address } = signer;
  const { expirationTime, notBefore } = info;
  const text = toSignInText({ ...info, address, chainId: chainIdOf(chainId), expirationTime, notBefore });
  const signature = `0x${signer.sign(personalMessageDigest(text)).toString("hex")}`;
  const signed = { ...info, address: checksummed(address), chainId, type: "eip191", signature };
  return { headers: { "SIGN-IN-WITH-X": Buffer.from(JSON.stringify(signed)).toString("base64") } };
}

function readChallenge({ headers }: Answer) {
  const decoded = decodeBase64Json(headers.get("payment-required") ?? "");
  if ("problem" in decoded) return undefined;
  const { extensions } = decoded.value as { extensions?: Record<string, unknown> };
  const { success, data } = Challenge.safeParse(extensions?.["sign-in-with-x"]);
  const chain = data?.supportedChains.find((each) => each.type === "eip191" && isEvmNetwork(each.chainId));
  return success && chain !== undefined ? { info: data.info, chainId: chain.chainId } : undefined;
}

function isUrl(uri: string, { href }: URL): boolean {
  return URL.canParse(uri) && new URL(uri).href === href;
}
