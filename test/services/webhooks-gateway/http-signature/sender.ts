import { generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";
import { createSigner, httpbis } from "http-message-signatures";
import { sha256Hex } from "../../../../shared/platform/crypto/compare.ts";
import { contentDigest } from "../../../../shared/platform/crypto/message-signature.ts";
import type { HttpAlgorithm } from "../../../../shared/webhook-auth/keys/algorithms.ts";
import { type Answer, send } from "../../../support/http.ts";

/*
 * A sender that signs with an HTTP Message Signatures library that shares no code with the gateway.
 */

export const PUBLIC_URL = "https://hooks.example.com/signed";
export const BODY = '{"hello": "world"}';
export const KEYID = "key-1";
/** Time of the gateway. */
export const NOW_SEC = 1_800_000_000;
export const COMPONENTS = ["@method", "@target-uri", "content-digest"];

export const SECRET = randomBytes(32).toString("hex");
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
export const PAIRS: Readonly<
  Record<Exclude<HttpAlgorithm, "hmac-sha256">, { publicKey: KeyObject; privateKey: KeyObject }>
> = {
  ed25519: generateKeyPairSync("ed25519"),
  "ecdsa-p256-sha256": generateKeyPairSync("ec", { namedCurve: "P-256" }),
  "rsa-pss-sha512": rsa,
};

export function pemOf(key: KeyObject): string {
  return String(key.export({ format: "pem", type: "spki" }));
}

export function endpointFor(settings: Record<string, unknown>, more: Record<string, unknown> = {}) {
  return {
    path: "/signed",
    job_id: 1,
    auth: "http-signature",
    public_url: PUBLIC_URL,
    secret: pemOf(PAIRS.ed25519.publicKey),
    http_signature: { algorithm: "ed25519", ...settings },
    ...more,
  };
}

export type Signing = {
  algorithm?: HttpAlgorithm;
  key?: KeyObject | string;
  components?: string[];
  /** Signature parameters in the library's types. */
  parameters?: Record<string, string | Date | undefined>;
  label?: string;
  method?: string;
  url?: string;
  body?: string;
  headers?: Record<string, string>;
};

/** Returns the headers of a request that the library has signed. */
export async function signed(signing: Signing = {}): Promise<Record<string, string>> {
  const { algorithm = "ed25519", key = PAIRS.ed25519.privateKey, components = COMPONENTS } = signing;
  const { method = "POST", url = PUBLIC_URL, body = BODY, label = "sig1" } = signing;
  const headers = { "Content-Digest": contentDigest(sha256Hex(Buffer.from(body))), ...signing.headers };
  const values = { created: new Date(NOW_SEC * 1000), keyid: KEYID, alg: algorithm, ...signing.parameters };
  const paramValues = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  const message = await httpbis.signMessage(
    {
      key: createSigner(key as KeyObject, algorithm, KEYID),
      fields: components,
      params: Object.keys(paramValues),
      paramValues,
      name: label,
    },
    { method, url, headers },
  );
  return message.headers as Record<string, string>;
}

/** Sends a signed request, with the given changes after signing. */
export async function deliver(
  address: string,
  signing: Signing = {},
  change: (headers: Record<string, string>) => Record<string, string> = (headers) => headers,
): Promise<Answer> {
  const { pathname, search } = new URL(signing.url ?? PUBLIC_URL);
  const headers = change(await signed(signing));
  return send(address, {
    path: `${pathname}${search}`,
    method: signing.method ?? "POST",
    headers,
    body: signing.body ?? BODY,
  });
}
