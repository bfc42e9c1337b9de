/** A request that is about to be sent to a facilitator. */
export type FacilitatorCall = {
  /** The facilitator's URL, as configured. */
  facilitator: string;
  operation: "verify" | "settle" | "supported";
  method: "GET" | "POST";
  /** With the port, unless it is the scheme's own. */
  host: string;
  path: string;
  /** As it is sent; undefined with GET. */
  body: string | undefined;
};

/** Gives the headers of one request, such as a token that is good for it alone. If it rejects or is late, nothing is sent. */
export type Authorize = (request: FacilitatorCall) => Promise<Readonly<Record<string, string>>>;
