import { render } from "preact";
import { Page } from "./page.tsx";
import { applyTheme, storedTheme } from "./ui/theme.tsx";

applyTheme(storedTheme());
const place = document.getElementById("page");
if (place !== null) render(<Page />, place);
