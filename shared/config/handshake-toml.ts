import { z } from "zod";
import { headerName, headerText } from "./fields.ts";
import { mustBe, requestTemplate } from "./template-fields.ts";

/* The key `handshakes` of an endpoint: the requests that set it up at the sender, and their answers. */

const jsonValue = z.union(
  [z.literal("{mac}"), requestTemplate, z.number()],
  mustBe('"{mac}", text with placeholders or a number'),
);

const handshake = z
  .strictObject({
    method: z.enum(["GET", "HEAD", "OPTIONS", "POST"]).default("POST"),
    when: z.record(requestTemplate, z.string()).default({}),
    proof: z.union(
      [
        z.enum(["none", "credential"]),
        z.strictObject({ verify_token: z.string().min(1) }),
        z.strictObject({ secret_header: headerName }),
      ],
      mustBe('"none", "credential", { verify_token = … } or { secret_header = … }'),
    ),
    status: z.literal([200, 204]).default(200),
    content_type: headerText.optional(),
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
  })
  .refine(
    ({ proof, when }) => proof === "credential" || !Object.keys(when).some((key) => key.includes("{body:")),
    {
      path: ["when"],
      message: 'can read the body only of a handshake with proof = "credential"',
    },
  );

export const handshakes = z.array(handshake).default([]);
