/** A request that is about to be sent to a facilitator. */
export type FacilitatorCall = {
  /** The facilitator's URL, as configured. */
  facilitator: string;
  operation: "verify" | "settle" | "supported";
  method: "GET" | "POST";
  /** Host with the port, unless it is the default port. */
  host: string;
  path: string;
  /** Body as sent. Undefined for GET. */
  body: string | undefined;
};

/**
 * Returns headers for one request to a facilitator, such as a token that is valid only for this request. If the promise rejects,
 * or resolves too late, the request is not sent.
 */
export type Authorize = (request: FacilitatorCall) => Promise<Readonly<Record<string, string>>>;
