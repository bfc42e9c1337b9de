import { PAGES } from "../pages.ts";
import { Empty } from "../ui/notice.tsx";
import { PageHead } from "../ui/page-head.tsx";
import { linkTo } from "../url-fragment.ts";

export function NotFound() {
  return (
    <>
      <PageHead title="Page not found" />
      <Empty title="No page at this address">
        The link may be incomplete. Go to{" "}
        {PAGES.map(({ name, title }, i) => (
          <span key={name}>
            {i > 0 && ", "}
            <a href={linkTo([name])}>{title}</a>
          </span>
        ))}
        .
      </Empty>
    </>
  );
}
