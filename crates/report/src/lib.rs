//! Tables, figures and the HTML page, from records alone.
