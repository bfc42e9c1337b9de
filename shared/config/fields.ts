import { z } from "zod";

/** Fields that more than one file has. */
export const address = z.string().refine((text) => {
  const port = /^(?:\[[0-9a-fA-F:]+\]|[^:\s]+):(\d{1,5})$/.exec(text)?.[1];
  return port !== undefined && Number(port) <= 65_535;
}, 'must be "host:port"');

export const positive = z.int().min(1);
/** Ids are whole numbers that survive every JSON parser. */
export const id = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

export const headerName = z
  .string()
  .regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/, "is not a header name (RFC 9110)");
export const visibleAscii = z.string().regex(/^[!-~]+$/, "must be visible ASCII without spaces");
/** A header value: visible ASCII, with single spaces inside. */
export const headerText = z
  .string()
  .regex(/^[!-~]+(?: [!-~]+)*$/, "must be visible ASCII, since it becomes a header value");

export const httpUrl = z
  .url({ protocol: /^https?$/, message: "must be an http or https URL" })
  .refine((url) => !/[?#]|\/\/[^/]*@/.test(url), "must have no user, password, query or fragment")
  .transform((url) => url.replace(/\/$/, ""));
