/** Returns the trace id of a well-formed `traceparent` (W3C Trace Context). */
export function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35);
}

/** Returns the trace field for a log entry about a call, if the call has a trace. */
export function traceFields(traceparent: string | undefined): { traceId?: string } {
  return traceparent === undefined ? {} : { traceId: traceIdOf(traceparent) };
}
