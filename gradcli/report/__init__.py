"""What was found, as frozen data, and every form of it: text, JSON, page, pictures, JUnit, SARIF."""
