import { z } from "zod";
import type { AUTH_MODES, AuthName } from "./auth-modes.ts";
import { headerName, headerText, type Input, orElse, requestTemplate, requestText } from "./fields.ts";

/*
 * How a sender of webhooks signs, identifies and sets up its deliveries, as data: the keys of an endpoint in webhooks.toml
 * beside its path, its job and its secret. A preset is one such description. Text with {placeholders} is a template
 * (template.ts).
 */

/** The answer to an accepted delivery. */
export const answer = z.strictObject({
  status: z.literal([200, 201, 202, 204]).default(202),
  content_type: headerText.optional(),
  /** Instead of our JSON. */
  body: z.string().max(4096).optional(),
  /** The status over a rate limit, which makes this sender come again. */
  limited: z.literal([429, 503]).default(429),
  /** The status after too many refused credentials of one address: a sender that tries us with bad ones wants only 401. */
  refusals_limited: z.literal([401, 429]).default(429),
});
export type Answer = Input<typeof answer>;

const jsonValue = z.union(
  [z.literal("{mac}"), requestTemplate, z.number()],
  orElse('"{mac}", text with placeholders or a number'),
);

/** A request by which a sender sets up an endpoint. It is answered and never queued. */
export const handshake = z.strictObject({
  method: z.enum(["GET", "HEAD", "OPTIONS", "POST"]).default("POST"),
  /** Values that the request must have, by template; a `*` at the end is any text. Only a signed handshake can be told by its body. */
  when: z.record(requestTemplate, z.string()).default({}),
  /**
   * The fields of which the whole body consists: a form of at most 1 KiB. A field with the value `*` may be missing. Only without
   * a proof.
   */
  form: z.record(z.string(), z.string()).optional(),
  /**
   * The proof before the answer: nothing (then a request with the method of a delivery must have no credential at all), the endpoint's
   * credential, or the verify token in this query parameter. With `secret_header` the operator must have opened the endpoint
   * (`postern endpoints open`) for the secret in this header.
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
  /** Templates. In `json`, the value {mac} is the MAC of `mac.of` under the first secret. */
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

/** The keys of an endpoint that describe its sender's deliveries, beside those of its credential. */
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

/** The keys of every way to authenticate. */
type AuthShape = All<(typeof AUTH_MODES)[AuthName]["keys"]>;
type All<Union> = (Union extends unknown ? (each: Union) => void : never) extends (each: infer Whole) => void
  ? Whole
  : never;

/** What a description can say. Every key may also stand in webhooks.toml, where it wins over the preset's. */
export type Description = Input<z.ZodObject<typeof deliveryKeys>> & {
  readonly [Key in keyof AuthShape]?: Input<AuthShape[Key]>;
} & { readonly auth: AuthName };

/** A description with what docs/senders.md says of the sender. */
export type Preset = {
  readonly sender: string;
  /** Where the sender documents it. */
  readonly source: string;
  /** What to set at the sender. */
  readonly setup: string;
  /** What the credential leaves open, beside what follows from the description. */
  readonly open?: readonly string[];
  readonly endpoint: Description;
};
