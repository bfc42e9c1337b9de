import { z } from "zod";
import type { AUTH_MODES, AuthName } from "./auth-modes.ts";
import { headerName, headerText, type Input, orElse, requestTemplate, requestText } from "./fields.ts";

/*
 * Description of a webhook sender as data: how it signs its deliveries, how they are identified, and how it sets up an
 * endpoint. It consists of the keys that an endpoint has in webhooks.toml, except its path, job and secret. A preset is
 * one such description. Text with {placeholders} is a template (template.ts).
 */

/** Answer to an accepted delivery. */
export const answer = z.strictObject({
  status: z.literal([200, 201, 202, 204]).default(202),
  content_type: headerText.optional(),
  /** Body that replaces the gateway's own JSON. */
  body: z.string().max(4096).optional(),
  /** Status for a delivery over a rate limit. The sender must retry after this status. */
  limited: z.literal([429, 503]).default(429),
  /**
   * Status after too many refused credentials from one address. Some senders test the endpoint with wrong credentials,
   * and accept only 401.
   */
  refusals_limited: z.literal([401, 429]).default(429),
});
export type Answer = Input<typeof answer>;

const jsonValue = z.union(
  [z.literal("{mac}"), requestTemplate, z.number()],
  orElse('"{mac}", text with placeholders or a number'),
);

/** A request with which a sender sets up an endpoint. It is answered and never queued. */
export const handshake = z.strictObject({
  method: z.enum(["GET", "HEAD", "OPTIONS", "POST"]).default("POST"),
  /**
   * Required values, by template. A `*` at the end of a value matches any text. These templates may read the body only
   * if the proof is `credential`, because only then the body is read and verified first.
   */
  when: z.record(requestTemplate, z.string()).default({}),
  /**
   * If set, the whole body must be a form of at most 1 KiB with exactly these fields. A field with the value `*` may be
   * missing. Allowed only with `proof = "none"`.
   */
  form: z.record(z.string(), z.string()).optional(),
  /**
   * Proof that is required before the answer:
   * - `none`: no proof. If the request has the method of a delivery, it counts as a handshake only if it has no
   *   credential.
   * - `credential`: the endpoint's credential.
   * - `verify_token`: the verify token, in this query parameter.
   * - `secret_header`: the request brings a new secret in this header. An operator must have opened the endpoint for it
   *   (`postern endpoints open`).
   */
  proof: z.union(
    [
      z.enum(["none", "credential"]),
      z.strictObject({ verify_token: z.string().min(1) }),
      z.strictObject({ secret_header: headerName }),
    ],
    orElse('"none", "credential", { verify_token = … } or { secret_header = … }'),
  ),
  status: z.literal([200, 204]).default(200),
  content_type: headerText.optional(),
  /**
   * Body, JSON and headers of the answer, as templates. In `json`, the value {mac} is replaced by a MAC. It is made of
   * the text `mac.of` with the endpoint's first secret.
   */
  body: requestTemplate.optional(),
  json: z.record(z.string(), jsonValue).optional(),
  headers: z.record(headerName, requestTemplate).default({}),
  mac: z
    .strictObject({
      of: requestTemplate,
      encoding: z.enum(["hex", "base64"]),
      prefix: z.string().optional(),
    })
    .optional(),
});
export type Handshake = Input<typeof handshake>;

/**
 * Configuration keys of an endpoint that describe its sender's deliveries. The keys that describe its credential are in
 * auth-modes.ts.
 */
export const deliveryKeys = {
  methods: z
    .array(z.enum(["POST", "PUT"]))
    .min(1)
    .default(["POST"]),
  delivery_id: requestText.optional(),
  event_type: requestText.optional(),
  forward_headers: z.array(headerName).max(32).default([]),
  encoded_bodies: z.enum(["refuse", "decode"]).default("refuse"),
  answer: answer.prefault({}),
  handshakes: z.array(handshake).default([]),
};

/** Configuration keys of all authentication modes. */
type AuthShape = All<(typeof AUTH_MODES)[AuthName]["keys"]>;
type All<Union> = (Union extends unknown ? (each: Union) => void : never) extends (each: infer Whole) => void
  ? Whole
  : never;

/** Keys that a description may have. Each may also be set in webhooks.toml, where it overrides the preset's value. */
export type Description = Input<z.ZodObject<typeof deliveryKeys>> & {
  readonly [Key in keyof AuthShape]?: Input<AuthShape[Key]>;
} & { readonly auth: AuthName };

/** A description of a sender, with the texts of its entry in docs/senders.md. */
export type Preset = {
  readonly sender: string;
  /** URL of the sender's documentation. */
  readonly source: string;
  /** Settings to make at the sender. */
  readonly setup: string;
  /** Weaknesses and limits of the sender that do not follow from the description. */
  readonly open?: readonly string[];
  readonly endpoint: Description;
};
