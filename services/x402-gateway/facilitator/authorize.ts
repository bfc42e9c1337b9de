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

/** Returns the headers of one request, such as a token for this request only. If the promise rejects or is late, nothing is sent. */
export type Authorize = (request: FacilitatorCall) => Promise<Readonly<Record<string, string>>>;
