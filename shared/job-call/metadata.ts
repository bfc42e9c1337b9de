/** A call's metadata keys, which are also the headers the runner sees (design: "Metadata"). */
export const WEBHOOK_PATH = "X-WEBHOOK-PATH";
export const WEBHOOK_NAME = "X-WEBHOOK-NAME";
export const WEBHOOK_ORIGIN = "X-WEBHOOK-ORIGIN";

/** The prefix is a setting (`metadata_prefix`), for runners that use another brand. */
export function platformKeys(prefix: string) {
  return {
    serviceId: `${prefix}-SERVICE-ID`,
    callId: `${prefix}-CALL-ID`,
    caller: `${prefix}-CALLER`,
    /** A request's own; no runner sees it. */
    quote: `${prefix}-QUOTE`,
  } as const;
}

/** Whether a header a runner receives is metadata, and must therefore be covered by the producer's signature. */
export function isMetadataHeader(name: string, prefix: string): boolean {
  const lower = name.toLowerCase();
  return [`${prefix}-`, "X-X402-", "X-WEBHOOK-"].some((start) => lower.startsWith(start.toLowerCase()));
}
