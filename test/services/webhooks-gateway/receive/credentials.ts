import { createHmac } from "node:crypto";

export const SECRET = "un secret très long à deviner";
export const OLD_SECRET = "the one before the rotation";
export const BODY = '{"alert": "disk full", "host": "db-1"}';

/** One endpoint for each kind of credential. */
export const ENDPOINTS = [
  { path: "/none", job_id: 1, auth: "none" },
  { path: "/bearer", job_id: 2, auth: "bearer", secret: [SECRET, OLD_SECRET] },
  { path: "/key", job_id: 3, auth: "api-key", secret: SECRET },
  { path: "/own-key", job_id: 3, auth: "api-key", secret: SECRET, api_key_header: "X-Own-Key" },
  { path: "/hmac", job_id: 4, auth: "hmac-sha256", secret: [SECRET, OLD_SECRET] },
];

/** Endpoints whose signature covers the body as received or as decoded. */
export const SIGNED_OVER = (["received", "decoded"] as const).map((signature_over) => ({
  ...{ path: `/signed-${signature_over}`, job_id: 1, auth: "hmac-sha256", secret: SECRET },
  ...{ encoded_bodies: "decode", signature_over },
}));

export const sign = (body: string | Buffer, secret = SECRET) =>
  createHmac("sha256", secret).update(body).digest("hex");

/** Converts UTF-8 text so that its bytes are sent unchanged: Node encodes header values as latin1. */
export const utf8 = (text: string) => Buffer.from(text, "utf8").toString("latin1");
